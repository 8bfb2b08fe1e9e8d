"""Telemetry with pydantic-ai: the spans of a turn, and of a query that a tool makes."""

from models_pydantic_ai import CALLS_TOOLS
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation

memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")
agent = Agent(CALLS_TOOLS, capabilities=[Instrumentation()])


@agent.tool_plain
def look_up(order: int) -> str:
    """Look up an order."""
    with tracer.start_as_current_span("query"):
        return f"order {order} has 3 articles"


def main() -> None:
    agent.run_sync("Please look up order 7.")
    spans = memory.get_finished_spans()
    names = {each.context.span_id: each.name for each in spans if each.context}
    for each in spans:
        print(each.name, "below", names[each.parent.span_id] if each.parent else "nothing")


if __name__ == "__main__":
    main()
