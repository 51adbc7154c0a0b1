"""Calibeating and calibrated forecasters: games against outcomes that an adversary may choose, and their bounds."""
