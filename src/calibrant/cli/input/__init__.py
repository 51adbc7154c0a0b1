"""Input of the commands: files and stores as relations, with numbers, groups and due rows as people write them."""
