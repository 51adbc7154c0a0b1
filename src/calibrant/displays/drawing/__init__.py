"""What every plot is drawn with: colors and axes, captions that wrap, additional axes."""
