"""Real servers for tests, benchmarks and examples: started on loopback when they are needed, and stopped afterwards.

postgres    a PostgreSQL of one's own
"""
