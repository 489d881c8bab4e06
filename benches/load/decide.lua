-- The load that scripts/bench sends with wrk: one authenticated POST /decide after the other.
-- BENCH_KEY is the agent's key, BENCH_BODY the file with the request body.
local file = assert(io.open(os.getenv("BENCH_BODY"), "r"))
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_KEY")

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("RESULT %.0f %.2f %.2f %d\n",
    summary.requests / (summary.duration / 1e6),
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end
