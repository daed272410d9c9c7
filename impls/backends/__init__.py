"""One family of backends a file, each readable alone; the registry scans this folder for ``BACKENDS``."""
