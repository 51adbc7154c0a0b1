"""The live service: predictions and outcomes in PostgreSQL, learned in one order, every version kept."""
