"""Several classes: binary forecasters through a notion, and an online temperature."""
