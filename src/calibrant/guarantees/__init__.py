"""What can be promised, from how much data, and the promise itself as a value."""
