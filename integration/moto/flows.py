"""moto whose Step Functions run definitions to the end. Usage: flows.py [INVOKE_URL]

Three things that moto 5.2 does not do by itself:

- A state machine is deep-copied with its executions, whose threads cannot be
  copied: only the first execution of an account would start. Executions are
  shared between the copies instead.
- lambda:invoke answers {} without Docker. The payload goes to INVOKE_URL/NAME by
  POST instead, and the body of the reply is the result; a status of 400 or more
  is a function error, with the errorType and errorMessage of its body.
- ECS describes the size of a container as a number, where the service model has
  a string that typed SDKs insist on.
"""

import copy
import sys
import urllib.error
import urllib.request

import motoserve

sock = motoserve.listen()

from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.config import default_user_config
from moto.ecs.models import Container
from moto.stepfunctions.models import StateMachine

default_user_config["stepfunctions"] = {"execute_state_machine": True}
default_user_config["lambda"] = {"use_docker": False}


def copy_sharing_executions(machine, memo):
    twin = copy.copy(machine)
    twin.executions = machine.executions[:]
    memo[id(machine)] = twin
    return twin


StateMachine.__deepcopy__ = copy_sharing_executions


def post_to(base):
    def invoke(backend, function_name, qualifier, body, headers, response_headers):
        name = function_name.rpartition(":function:")[2].partition(":")[0]
        payload = body.encode() if isinstance(body, str) else body or b"{}"
        request = urllib.request.Request(f"{base}/{name}", data=payload, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as reply:
                return reply.read()
        except urllib.error.HTTPError as refusal:
            response_headers["x-amz-function-error"] = "Unhandled"
            return refusal.read()

    return invoke


if len(sys.argv) > 1:
    LambdaSimpleBackend.invoke = post_to(sys.argv[1].rstrip("/"))

make_container = Container.__init__


def make_container_with_text(container, *args, **kwargs):
    make_container(container, *args, **kwargs)
    container.cpu, container.memory = str(container.cpu or 0), str(container.memory or 0)


Container.__init__ = make_container_with_text

motoserve.serve(sock, threaded=True)
