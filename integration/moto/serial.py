"""moto that answers one request at a time.

Its threaded server evaluates a condition and writes in two steps, so two racing
conditional writes can both win. In one thread they cannot, as on DynamoDB.
"""

import motoserve

sock = motoserve.listen()
motoserve.serve(sock, threaded=False)
