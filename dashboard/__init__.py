"""The reader: what was measured, as a pandas DataFrame and as a static site. It needs no torch and no network."""
