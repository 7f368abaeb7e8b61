// What the tests under node call.

export * from "../src/answers";
export * from "../src/decimal";
export * from "../src/kernel";
export * from "../src/run";
export * from "../src/sampling";
export * from "../src/words";
