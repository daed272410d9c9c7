if (document.querySelector('[data-page="changes"]')) {
  addPage("changes", { title: "What changed", about: "", uses: [], choices: {}, draw: () => [] });
}
