"""SQL: dialects, building blocks of expressions, and what runs or reads them."""
