"""The built-in detectors: registered and treated as everyone else's."""
