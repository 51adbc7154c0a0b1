"""Online calibration of several classes: binary forecasters by notion, and online temperature scaling."""
