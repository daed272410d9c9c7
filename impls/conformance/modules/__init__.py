"""The conformance kit for whole modules: the cases, the budgets and the verdicts."""
