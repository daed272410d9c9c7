"""The instrument: how one module's cells are measured, recorded and read back."""
