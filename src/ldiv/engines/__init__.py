"""Numbers, no derivatives: what all engines share, and one folder for each kind of engine."""
