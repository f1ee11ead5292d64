"""Real servers for tests, benchmarks and examples: started on loopback when they are needed, and stopped afterwards.

postgres    a PostgreSQL of one's own
s3          a store that speaks S3's protocol, and `failing` what stands before it and breaks it
"""
