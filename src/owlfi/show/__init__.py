"""What people see of results."""
