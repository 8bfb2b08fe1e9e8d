"""Names of attributes and metrics: OpenTelemetry's for generative AI, and our own."""

# Copied, because the package that publishes them marks their module as unstable.
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
INPUT_MESSAGES = "gen_ai.input.messages"
OPERATION_NAME = "gen_ai.operation.name"
OUTPUT_MESSAGES = "gen_ai.output.messages"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
USAGE_CACHE_CREATION_INPUT_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ERROR_TYPE = "error.type"
CLIENT_DURATION = "gen_ai.client.operation.duration"
CLIENT_TOKEN_USAGE = "gen_ai.client.token.usage"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"
# Vendors for which the conventions have another name than our provider.
VENDORS = {"gemini": "gcp.gemini"}
# The bucket boundaries that the conventions recommend.
TOKEN_STEPS = [4**power for power in range(14)]
SECOND_STEPS = [0.01 * 2**power for power in range(14)]

# Names of our own. A number in a span is a float, so the cost is there a second time, as text with
# all its digits.
MODULE = "amplifier.module"
TURN_STATUS = "amplifier.turn.status"
COST_USD = "amplifier.cost_usd"
COST_USD_EXACT = "amplifier.cost_usd_exact"
CLIENT_COST = "amplifier.client.cost"
# Values of `error.type` for failures without an exception.
NO_RESULT = "no_result"
TOOL_FAILURE = "tool_failure"
UNKNOWN_ERROR = "_OTHER"
