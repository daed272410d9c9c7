"""The conformance kit: the cases, the budgets, and the verdicts on anybody's kernel.

``cases`` and ``quirks`` say what is asked, ``budget`` what error is allowed, ``judge`` what became of it; ``check``,
``shrink`` and ``report`` are the command; ``contracts`` holds what a backend declares against what running it shows.
``modules`` is the same for whole modules.
"""
