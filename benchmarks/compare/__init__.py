"""``python -m benchmarks compare``: two revisions, torch versions or backends, measured against each other in pairs."""
