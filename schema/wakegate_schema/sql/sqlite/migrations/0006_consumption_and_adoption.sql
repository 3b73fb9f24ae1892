-- oldest: 4

-- When the provider says that we consumed an approval (AAP, consumption), and whether it is owed a word of the outcome.

ALTER TABLE execution ADD COLUMN consumed_at INTEGER;

ALTER TABLE execution ADD COLUMN report_due_at INTEGER CHECK (report_due_at IS NULL OR consumed_at IS NOT NULL);

ALTER TABLE execution ADD COLUMN report_tries INTEGER NOT NULL DEFAULT 0;

CREATE INDEX execution_report_due ON execution (report_due_at) WHERE report_due_at IS NOT NULL;

CREATE TRIGGER execution_consumption_is_fixed BEFORE UPDATE OF consumed_at ON execution
WHEN old.consumed_at IS NOT NULL AND new.consumed_at IS NOT old.consumed_at
BEGIN
    SELECT RAISE(ABORT, 'what was consumed stays consumed');
END;

-- Whatever becomes of a call whose approval was consumed, its provider is told: also that it never ran.

CREATE TRIGGER execution_owes_a_report AFTER UPDATE OF state ON execution
WHEN new.state <> old.state AND new.consumed_at IS NOT NULL AND new.finished_at IS NOT NULL
BEGIN
    UPDATE execution SET report_due_at = new.changed_at, report_tries = 0 WHERE number = new.number;
END;

-- Which providers have shown that they know consumption: from then on nothing starts there without it.

CREATE TABLE consuming_provider (
    provider TEXT PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT;

-- Requests that nobody saved here, whose notification came all the same: a framework may wait for them.

CREATE TABLE adoption (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'owed' CHECK (state IN ('owed', 'ended')),
    reason TEXT,
    framework TEXT,
    thread TEXT,
    problem TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER,
    lease_number INTEGER NOT NULL DEFAULT 0,
    runs INTEGER NOT NULL DEFAULT 0,
    well_runs INTEGER NOT NULL DEFAULT 0,
    run_began_at INTEGER,
    run_until INTEGER,
    last_end TEXT CHECK (last_end IN ('well', 'badly')),
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    UNIQUE (provider, instance_id, request_id),
    CHECK ((state = 'owed') = (due_at IS NOT NULL)),
    CHECK ((state = 'ended') = (ended_at IS NOT NULL)),
    CHECK (state <> 'ended' OR reason IS NOT NULL),
    CHECK ((framework IS NULL) = (thread IS NULL)),
    CHECK (run_until IS NULL OR (state = 'owed' AND thread IS NOT NULL AND run_began_at IS NOT NULL))
) STRICT;

CREATE INDEX adoption_due ON adoption (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX adoption_ended ON adoption (ended_at) WHERE ended_at IS NOT NULL;

CREATE UNIQUE INDEX adoption_one_run_a_thread ON adoption (framework, thread) WHERE run_until IS NOT NULL;

-- Up to which notification it was looked whether anybody saved its request.

CREATE TABLE adoption_mark (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL) STRICT;

INSERT INTO adoption_mark (id, number) VALUES (1, 0);

-- Which frameworks each living worker can resume.

CREATE TABLE worker_resumer (
    worker_id TEXT NOT NULL REFERENCES worker (worker_id) ON DELETE CASCADE,
    framework TEXT NOT NULL,
    PRIMARY KEY (worker_id, framework)
) STRICT;
