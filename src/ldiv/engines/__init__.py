"""Numbers, no derivatives: what engines share, and one folder for each kind of them."""
