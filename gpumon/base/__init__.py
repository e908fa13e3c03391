"""What belongs to no floor and every floor may use; it imports nothing of gpumon."""
