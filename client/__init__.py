"""Speaking to a broker from outside, as its clients do. Must never know the broker's insides."""
