// Says whether a webhook is accepted: by the library, and by its public key.
import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const packages = createRequire(`${process.env.COUNTERSIGN_TEST_NODE}/package.json`);
const { Webhook } = packages("standardwebhooks");

const { secret, public: key, body, headers, now } = JSON.parse(readFileSync(0, "utf8"));

function acceptedBySecret() {
  const real = Date.now;
  Date.now = () => now * 1000;
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  } finally {
    Date.now = real;
  }
}

function acceptedByKey() {
  const spki = Buffer.concat([
    Buffer.from("302a300506032b6570032100", "hex"),
    Buffer.from(key.slice("whpk_".length), "base64"),
  ]);
  const publicKey = createPublicKey({ key: spki, format: "der", type: "spki" });
  const text = Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`);
  return headers["webhook-signature"]
    .split(" ")
    .filter((signature) => signature.startsWith("v1a,"))
    .some((signature) => verify(null, text, publicKey, Buffer.from(signature.slice(4), "base64")));
}

console.log(acceptedBySecret() && acceptedByKey() ? "accepted" : "refused");
