"""A study on a local network: the next item by a token link, every answer stored at once."""
