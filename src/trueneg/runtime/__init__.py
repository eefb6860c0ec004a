"""What a running job needs: its log, devices, checkpoints, worker processes and precision."""
