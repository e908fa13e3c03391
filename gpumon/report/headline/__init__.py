"""The headline above the views of the whole fleet: what is held, what is lost, what is new.

`lines` is the entrance, `fleet_gpus` counts.
"""
