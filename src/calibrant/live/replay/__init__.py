"""Back-test: replay history under policies of when to refit, without look-ahead, and compare what they served."""
