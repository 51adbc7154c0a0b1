"""What the service keeps in PostgreSQL: the log of each stream, versions, and states of the learner."""
