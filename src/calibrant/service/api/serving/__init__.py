"""What a serving process holds: versions, receipts, and rows that wait for their commit."""
