-- oldest: 4

-- Which workers live, and which tools each has. A row goes with its worker, or some time after its last sign of life.

CREATE TABLE worker (
    worker_id TEXT COLLATE "C" PRIMARY KEY,
    host TEXT COLLATE "C" NOT NULL,
    pool TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    migration BIGINT NOT NULL,
    lease_seconds BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);

CREATE TABLE worker_tool (
    worker_id TEXT COLLATE "C" NOT NULL REFERENCES worker (worker_id),
    tool TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (worker_id, tool)
);

-- A worker looks for what it can run, and for what needs no tool, and sees nothing of all the rest. Calls that declare no
-- version are among those of version ''.

CREATE INDEX execution_due_tool ON execution (epoch, tool, (COALESCE(tool_version, '')), state, due_at)
WHERE due_at IS NOT NULL AND runs = 'worker';

CREATE INDEX execution_due_harness ON execution (epoch, due_at) WHERE due_at IS NOT NULL AND runs = 'harness';
