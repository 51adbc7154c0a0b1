"""Input of a verdict: arrays, frames and tallies become evidence, through a map if one is given."""
