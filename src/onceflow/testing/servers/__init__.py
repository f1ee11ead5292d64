"""Real servers for tests, benchmarks and examples: started on loopback when they are needed, and stopped afterwards.

- `postgres`: a PostgreSQL server
- `s3`: a store that speaks S3's protocol
- `failing`: a proxy before a server that breaks what it passes on
"""
