"""Report: one self-contained HTML page of an experiment's figures, and `summary.json` for programs."""
