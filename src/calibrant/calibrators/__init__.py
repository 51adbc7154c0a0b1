"""Methods that fit a map to scores and labels."""
