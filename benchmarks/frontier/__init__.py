"""The memory frontier: the largest sizes that fit a given memory, predicted without allocating anything."""
