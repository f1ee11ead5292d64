"""What a type checker says about actors. Lines without a mark must be free of errors."""

from __future__ import annotations

from typing import assert_type

from onceflow import actor, run, task
from onceflow.actors import Exclusive, const, create, later


@actor
class Model:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def learn(self, x: float, *, weight: int = 1) -> float:
        return x * self.rate * weight

    @const
    def name(self) -> str:
        return "model"


@actor(cpus=1, memory="1GB", idle=3)
class Other:
    pass


@task.pure
def begin(rate: float) -> Model:
    assert_type(create(Model, rate), Model)
    return create(Model, rate)


@task.pure
def begin_wrongly() -> Model:
    return create(Model, "fast")  # E: arg-type


@task
def train(model: Exclusive[Model], x: float) -> Model:
    assert_type(model.learn(x, weight=2), float)
    assert_type(later(model.learn, x).result(), float)
    assert_type(model.name(), str)
    model.learn("x")  # E: arg-type
    later(model.learn, "x")  # E: arg-type
    return model


@task
async def train_later(models: Exclusive[list[Model]]) -> list[Model]:
    assert_type(await later(models[0].learn, 1.0), float)
    return models


assert_type(train.bind(begin.bind(0.1), 1.0), Model)
assert_type(run(train.bind(begin.bind(0.1), 1.0)), Model)
train.bind("model", 1.0)  # E: arg-type
