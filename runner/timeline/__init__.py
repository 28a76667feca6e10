"""What happened on host and devices, and what it says: tables, gaps and their causes, overlap."""
