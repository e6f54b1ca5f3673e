"""What integrators are told to build: FastAPI takes the event, SET NX EX in Redis tells
whether it is new, requests sends it on with a key, and the answer follows."""

import os

import redis
import requests
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

app = FastAPI()
memory = redis.Redis(host="127.0.0.1", port=int(os.environ["REDIS_PORT"]))
session = requests.Session()
session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=64))
SINK_URL = os.environ["SINK_URL"]


def take(event_id, body):
    if not memory.set("dedup:" + event_id, "1", nx=True, ex=345600):
        return "duplicate"
    answer = session.post(SINK_URL, data=body, timeout=30, headers={
        "Content-Type": "application/json", "Idempotency-Key": event_id})
    answer.raise_for_status()
    return "new"


@app.post("/in/events")
async def post_event(request: Request):
    event = await request.json()
    verdict = await run_in_threadpool(take, event["id"], await request.body())
    return Response('{"verdict":"%s"}' % verdict, media_type="application/json",
                    headers={"Stile-Verdict": verdict})
