-- Groups: the calls of one agent turn, told of by one wake when all are resolved (DESIGN, "Groups").

CREATE TABLE call_group (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    "group" TEXT NOT NULL,
    wake TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    sealed_at INTEGER,
    UNIQUE (provider, instance_id, "group"),
    FOREIGN KEY (provider, instance_id) REFERENCES instance (provider, instance_id)
) STRICT;

CREATE INDEX call_group_open ON call_group (created_at) WHERE sealed_at IS NULL;

CREATE TRIGGER call_group_is_fixed BEFORE UPDATE ON call_group
WHEN new.number <> old.number OR new.provider <> old.provider OR new.instance_id <> old.instance_id
    OR new."group" <> old."group" OR new.wake <> old.wake OR new.created_at <> old.created_at
    OR (old.sealed_at IS NOT NULL AND new.sealed_at IS NOT old.sealed_at)
BEGIN
    SELECT RAISE(ABORT, 'a group never changes but for its seal');
END;

CREATE TRIGGER call_group_is_kept BEFORE DELETE ON call_group
BEGIN
    SELECT RAISE(ABORT, 'a group is never deleted');
END;

CREATE INDEX execution_group ON execution (provider, instance_id, "group") WHERE "group" IS NOT NULL;

CREATE INDEX execution_group_unresolved ON execution (provider, instance_id, "group")
WHERE "group" IS NOT NULL AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt');

-- Groups from before were told of call by call; what of them is still to come is told at once. Their calls may wake
-- different targets: those that do not wake the group's go on being told of one by one.

INSERT INTO call_group (provider, instance_id, "group", wake, created_at, sealed_at)
SELECT provider, instance_id, "group", MIN(wake), MIN(created_at), MAX(created_at)
FROM execution WHERE "group" IS NOT NULL
GROUP BY provider, instance_id, "group";

CREATE TRIGGER execution_fits_its_group BEFORE INSERT ON execution
WHEN new."group" IS NOT NULL AND EXISTS (
    SELECT 1 FROM call_group
    WHERE provider = new.provider AND instance_id = new.instance_id AND "group" = new."group"
        AND (sealed_at IS NOT NULL OR wake <> new.wake))
BEGIN
    SELECT RAISE(ABORT, 'the group is sealed, or wakes another target');
END;

CREATE TRIGGER execution_begins_its_group AFTER INSERT ON execution
WHEN new."group" IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM call_group
    WHERE provider = new.provider AND instance_id = new.instance_id AND "group" = new."group")
BEGIN
    INSERT INTO call_group (provider, instance_id, "group", wake, created_at)
    VALUES (new.provider, new.instance_id, new."group", new.wake, new.created_at);
END;

-- Wakes: a group's is that of the resolution which completed it, once.

ALTER TABLE wake ADD COLUMN group_number INTEGER REFERENCES call_group (number);

-- From when on it is tried: its creation, or the last replay.

ALTER TABLE wake ADD COLUMN owed_since INTEGER;

CREATE UNIQUE INDEX wake_group ON wake (group_number) WHERE group_number IS NOT NULL;

CREATE INDEX wake_not_delivered ON wake (state) WHERE state <> 'delivered';

CREATE INDEX wake_target_due ON wake (target, due_at) WHERE due_at IS NOT NULL;

DROP TRIGGER transition_wakes;

CREATE TRIGGER transition_wakes AFTER INSERT ON transition
WHEN new.to_state NOT IN ('saved', 'submitting', 'waiting', 'started')
BEGIN
    INSERT INTO wake (wake_id, execution_id, number, target, due_at, created_at, to_state)
    SELECT new.execution_id || '_' || new.number, new.execution_id, new.number, wake, new.at, new.at, new.to_state
    FROM execution
    WHERE execution_id = new.execution_id AND wake <> 'none' AND (new.to_state <> 'permitted' OR runs = 'harness')
        AND (new.to_state IN ('permitted', 'in_doubt') OR NOT EXISTS (
            SELECT 1 FROM call_group
            WHERE call_group.provider = execution.provider AND call_group.instance_id = execution.instance_id
                AND call_group."group" = execution."group" AND call_group.wake = execution.wake));

    INSERT INTO wake (wake_id, execution_id, number, target, due_at, created_at, to_state, group_number)
    SELECT new.execution_id || '_' || new.number, new.execution_id, new.number, call_group.wake, new.at, new.at,
        new.to_state, call_group.number
    FROM execution
    JOIN call_group ON call_group.provider = execution.provider AND call_group.instance_id = execution.instance_id
        AND call_group."group" = execution."group" AND call_group.wake = execution.wake
    WHERE execution.execution_id = new.execution_id AND call_group.wake <> 'none' AND call_group.sealed_at IS NOT NULL
        AND new.to_state NOT IN ('permitted', 'in_doubt')
        AND NOT EXISTS (
            SELECT 1 FROM execution AS other
            WHERE other.provider = execution.provider AND other.instance_id = execution.instance_id
                AND other."group" = execution."group" AND other.wake = execution.wake
                AND other.state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt'));
END;

CREATE TRIGGER call_group_sealed AFTER UPDATE OF sealed_at ON call_group
WHEN old.sealed_at IS NULL AND new.sealed_at IS NOT NULL AND new.wake <> 'none'
BEGIN
    INSERT INTO wake (wake_id, execution_id, number, target, due_at, created_at, to_state, group_number)
    SELECT transition.execution_id || '_' || transition.number, transition.execution_id, transition.number, new.wake,
        new.sealed_at, new.sealed_at, transition.to_state, new.number
    FROM execution JOIN transition ON transition.execution_id = execution.execution_id
    WHERE execution.provider = new.provider AND execution.instance_id = new.instance_id
        AND execution."group" = new."group"
        AND NOT EXISTS (
            SELECT 1 FROM execution AS other
            WHERE other.provider = new.provider AND other.instance_id = new.instance_id
                AND other."group" = new."group"
                AND other.state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt'))
    ORDER BY execution.finished_at DESC, execution.number DESC, transition.number DESC LIMIT 1;
END;

-- What harnesses are told, in the order of the commits: the stream of resolutions reads it from where it left off.
-- The epoch tells a place in it that is gone since the store went back in time.

CREATE TABLE resolution (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch INTEGER NOT NULL,
    provider TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    execution_id TEXT NOT NULL REFERENCES execution (execution_id),
    transition_number INTEGER NOT NULL,
    from_state TEXT,
    to_state TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE INDEX resolution_instance ON resolution (provider, instance_id, number);

CREATE INDEX resolution_epoch ON resolution (epoch, number);

INSERT INTO resolution (epoch, provider, instance_id, execution_id, transition_number, from_state, to_state, at)
SELECT (SELECT MAX(number) FROM epoch), execution.provider, execution.instance_id, transition.execution_id,
    transition.number, transition.from_state, transition.to_state, transition.at
FROM transition JOIN execution ON execution.execution_id = transition.execution_id
WHERE transition.to_state NOT IN ('saved', 'submitting', 'waiting', 'started')
    AND (transition.to_state <> 'permitted' OR execution.runs = 'harness')
ORDER BY transition.at, transition.execution_id, transition.number;

CREATE TRIGGER transition_resolves AFTER INSERT ON transition
WHEN new.to_state NOT IN ('saved', 'submitting', 'waiting', 'started')
BEGIN
    INSERT INTO resolution (epoch, provider, instance_id, execution_id, transition_number, from_state, to_state, at)
    SELECT (SELECT MAX(number) FROM epoch), provider, instance_id, new.execution_id, new.number, new.from_state,
        new.to_state, new.at
    FROM execution
    WHERE execution_id = new.execution_id AND (new.to_state <> 'permitted' OR runs = 'harness');
END;

-- A harness lists its own instances' executions, the latest first.

CREATE INDEX execution_instance ON execution (provider, instance_id, number);

-- A harness asks for its calls in one state; what other harnesses have in it costs nothing.

CREATE INDEX execution_instance_state ON execution (provider, instance_id, state, number);

-- Under what key the numbers of calls and resolutions are shown to harnesses, so that they count nobody's but their own.

CREATE TABLE numbering (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL CHECK (length(key) = 32)) STRICT;

INSERT INTO numbering (id, key) VALUES (1, randomblob(32));
