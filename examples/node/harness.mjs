// The refund desk's harness in Node.js, standard library only, in two short lives:
//   node harness.mjs propose   the agent proposes two refunds; they are saved, and this process ends
//   node harness.mjs resume    a process that knows nothing yet is told what became of them, and runs what was approved
// CONTROL: the receiver's control socket. TOKEN_FILE: what proves who asks. BANK: the payment API. STATE: a folder.
import { randomUUID } from "node:crypto";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

const { CONTROL, TOKEN_FILE, BANK, STATE } = process.env;
const authorization = `Bearer ${readFileSync(TOKEN_FILE, "utf8").trimEnd()}`;

// Sends one request over the socket and gives the answer as soon as it begins.
function send(method, path, headers = {}, body = undefined) {
  return new Promise((resolve, reject) => {
    const options = { socketPath: CONTROL, agent: false, method, path, headers: { authorization, ...headers } };
    request(options, resolve).on("error", reject).end(body);
  });
}

// Every request may be made again as it is, so a lost answer is simply asked for again.
async function ask(method, path, value) {
  const body = JSON.stringify(value);
  for (let wait = 500; wait < 20_000; wait *= 2) {
    try {
      const answer = await send(method, path, { "content-type": "application/json" }, body);
      let text = "";
      for await (const piece of answer.setEncoding("utf8")) text += piece;
      if (![429, 503].includes(answer.statusCode)) return { status: answer.statusCode, ...JSON.parse(text) };
    } catch (error) {
      console.error(`harness: ${error.message}; once more`);
    }
    await pause(wait);
  }
  throw new Error("no answer from wakegate");
}

// Gives every resolution that is kept, in order, and what comes; a broken stream is resumed where it was.
async function* resolutions() {
  for (let cursor = ""; ; ) {
    try {
      const answer = await send("GET", "/v1/resolutions?after=", { "last-event-id": cursor });
      if (answer.statusCode !== 200) throw new Error(`the stream was refused: ${answer.statusCode}`);
      let text = "";
      for await (const piece of answer.setEncoding("utf8")) {
        const events = (text + piece).split("\n\n");
        text = events.pop();
        for (const lines of events) {
          const { id, event, data } = Object.fromEntries(lines.split("\n").map((line) => line.split(/: ?(.*)/s)));
          if (event === "resolution") yield JSON.parse(data);
          cursor = id ?? cursor;
        }
      }
    } catch (error) {
      console.error(`harness: ${error.message}; once more`);
    }
    await pause(500);
  }
}

const tellTheAgent = (line) => appendFileSync(`${STATE}/agent.txt`, `${line}\n`);

// The keys are the agent's own, made before the calls: saving one again finds the same call.
async function propose() {
  const refunds = [
    ["run-7:refund-1", { payment_id: "pay-1", amount: 4900, currency: "EUR" }, "The customer was charged twice."],
    ["run-7:refund-2", { payment_id: "pay-2", amount: 12000, currency: "EUR" }, "The parcel never came."],
  ];
  const calls = [];
  for (const [key, args, reasoning] of refunds) {
    const call = { tool: "issue_refund", arguments: args, key, reasoning, runs: "harness" };
    const saved = await ask("POST", "/v1/executions", call);
    if (saved.status > 201) throw new Error(saved.message);
    calls.push(saved.execution_id);
  }
  writeFileSync(`${STATE}/calls.json`, JSON.stringify(calls));
}

async function resume() {
  const open = new Set(JSON.parse(readFileSync(`${STATE}/calls.json`, "utf8")));
  for await (const told of resolutions()) {
    if (!open.has(told.execution_id)) continue; // another agent's, or told before
    if (told.state === "permitted") {
      await run(told);
    } else {
      tellTheAgent(`${told.key}: ${told.state}: ${told.note ?? ""} ${JSON.stringify(told.result)}`);
      open.delete(told.execution_id);
    }
    if (open.size === 0) return;
  }
}

// Spends the permission, once, and makes the refund. The claim's id is this process's alone.
async function run({ execution_id, key }) {
  const claimed = await ask("POST", `/v1/executions/${execution_id}/claim`, { claim_id: randomUUID() });
  if (claimed.status !== 200) return tellTheAgent(`${key}: not run by this process: ${claimed.message}`);
  const { number, token, start_before, idempotency_key, arguments: args } = claimed.attempt;
  const end = (outcome) => ask("POST", `/v1/executions/${execution_id}/finish`, { number, token, ...outcome });
  if (!(Date.now() < Date.parse(start_before))) return end({ outcome: "not_begun" });
  let outcome;
  try {
    const headers = { "content-type": "application/json", "idempotency-key": idempotency_key };
    const signal = AbortSignal.timeout(10_000); // well within the lease; longer work renews it
    const answer = await fetch(`${BANK}/refunds`, { method: "POST", headers, signal, body: JSON.stringify(args) });
    if (!answer.ok) throw new Error(`the bank answered ${answer.status}`);
    outcome = { outcome: "succeeded", result: await answer.json() };
  } catch (error) {
    outcome = { outcome: "in_doubt", error: error.message }; // it may have happened: nobody runs it again
  }
  await end(outcome);
}

const lives = { propose, resume };
if (!(process.argv[2] in lives)) {
  console.error("usage: node harness.mjs propose|resume");
  process.exit(2);
}
await lives[process.argv[2]]();
process.exit(0); // the stream is still open
