-- The whole schema as the migrations make it; a test holds the two equal.

CREATE TABLE migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    oldest INTEGER NOT NULL DEFAULT 9223372036854775807
) STRICT;

CREATE TABLE probe (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    writes INTEGER NOT NULL
) STRICT;

CREATE TABLE clock_mark (
    host TEXT PRIMARY KEY,
    highest_at INTEGER NOT NULL
) STRICT;

CREATE TABLE clock_reset (
    number INTEGER PRIMARY KEY,
    host TEXT NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER NOT NULL,
    actor TEXT NOT NULL
) STRICT;

CREATE TRIGGER clock_reset_is_append_only BEFORE UPDATE ON clock_reset
BEGIN
    SELECT RAISE(ABORT, 'resets of a clock mark are append-only');
END;

CREATE TRIGGER clock_reset_is_kept BEFORE DELETE ON clock_reset
BEGIN
    SELECT RAISE(ABORT, 'resets of a clock mark are append-only');
END;

CREATE TABLE epoch (
    number INTEGER PRIMARY KEY,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER epoch_rises BEFORE INSERT ON epoch
WHEN new.number <> (SELECT MAX(number) + 1 FROM epoch)
BEGIN
    SELECT RAISE(ABORT, 'the next epoch is the last one plus one');
END;

CREATE TRIGGER epoch_is_append_only BEFORE UPDATE ON epoch
BEGIN
    SELECT RAISE(ABORT, 'epochs are append-only');
END;

CREATE TRIGGER epoch_is_kept BEFORE DELETE ON epoch
BEGIN
    SELECT RAISE(ABORT, 'epochs are append-only');
END;

CREATE TABLE backup (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    made_at INTEGER NOT NULL
) STRICT;

CREATE TABLE registration (
    registration_id TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('expected', 'verified', 'superseded', 'retired')),
    sealed_secret BLOB NOT NULL,
    url TEXT,
    idempotency_key TEXT,
    instance_id TEXT,
    created_at INTEGER NOT NULL,
    expected_until INTEGER NOT NULL,
    verified_at INTEGER,
    retired_at INTEGER,
    superseded_until INTEGER CHECK (state <> 'superseded' OR superseded_until IS NOT NULL),
    replacing INTEGER NOT NULL DEFAULT 0
    CHECK (replacing = 0 OR (replacing = 1 AND state IN ('expected', 'verified') AND instance_id IS NOT NULL)),
    CHECK (state NOT IN ('verified', 'superseded') OR (instance_id IS NOT NULL AND verified_at IS NOT NULL)),
    CHECK (state <> 'retired' OR retired_at IS NOT NULL)
) STRICT;

CREATE INDEX registration_instance ON registration (provider, instance_id);

CREATE UNIQUE INDEX registration_expected_name ON registration (provider, name) WHERE state = 'expected';

CREATE UNIQUE INDEX registration_replacing ON registration (provider, instance_id) WHERE replacing = 1;

CREATE TRIGGER registration_goes_forward BEFORE UPDATE ON registration
WHEN (new.state <> old.state AND (old.state || ' ' || new.state) NOT IN (
        'expected verified', 'expected retired', 'verified superseded', 'verified retired', 'superseded retired'))
    OR (old.replacing = 1 AND new.instance_id IS NOT old.instance_id)
    OR new.replacing > old.replacing
    OR (old.superseded_until IS NOT NULL
        AND (new.superseded_until IS NULL OR new.superseded_until > old.superseded_until))
BEGIN
    SELECT RAISE(ABORT, 'a registration only goes forward');
END;

CREATE TABLE instance (
    provider TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'parked', 'retired')),
    state_reason TEXT,
    delivery TEXT NOT NULL CHECK (delivery IN ('webhook', 'none')),
    sealed_credential BLOB,
    credential_expires_at INTEGER,
    created_at INTEGER NOT NULL,
    retired_at INTEGER,
    PRIMARY KEY (provider, instance_id),
    CHECK ((state = 'retired') = (sealed_credential IS NULL)),
    CHECK ((state = 'retired') = (retired_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX instance_name ON instance (name) WHERE state <> 'retired';

CREATE TRIGGER instance_retired_for_good BEFORE UPDATE OF state ON instance
WHEN old.state = 'retired' AND new.state <> 'retired'
BEGIN
    SELECT RAISE(ABORT, 'a retired instance stays retired');
END;

CREATE TABLE notification (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    registration_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('received', 'handled', 'discarded')),
    reason TEXT,
    duplicates INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    handled_at INTEGER,
    keep_until INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (provider, event_id),
    CHECK ((state = 'received') = (handled_at IS NULL)),
    CHECK (state <> 'discarded' OR reason IS NOT NULL)
) STRICT;

CREATE INDEX notification_unhandled ON notification (provider, instance_id, request_id) WHERE state = 'received';

CREATE INDEX notification_keep_until ON notification (keep_until);

CREATE TABLE anomaly (
    anomaly_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    provider TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    detail TEXT NOT NULL,
    count INTEGER NOT NULL DEFAULT 1,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    UNIQUE (kind, provider, instance_id, subject_id, detail)
) STRICT;

CREATE INDEX anomaly_last_at ON anomaly (last_at);

CREATE TABLE arrow (
    from_state TEXT NOT NULL,
    to_state TEXT NOT NULL,
    PRIMARY KEY (from_state, to_state)
) STRICT, WITHOUT ROWID;

CREATE TABLE execution (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL UNIQUE,
    provider TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    tool TEXT NOT NULL CHECK (tool <> ''),
    arguments BLOB,
    context BLOB,
    reasoning TEXT,
    timeout TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    tool_version TEXT,
    runs TEXT NOT NULL CHECK (runs IN ('worker', 'harness')),
    wake TEXT NOT NULL,
    "group" TEXT,
    state TEXT NOT NULL,
    reason TEXT,
    actor TEXT NOT NULL,
    problem TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER,
    lease_number INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,
    lease_owner TEXT,
    hold_id TEXT,
    hold_until INTEGER,
    request_id TEXT,
    request_created_at INTEGER,
    deadline_at INTEGER,
    decided_at INTEGER,
    expires_at INTEGER,
    note TEXT,
    claim_id TEXT,
    attempt_token_hash BLOB,
    attempt_number INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    result BLOB,
    error TEXT,
    resolution_note TEXT,
    cancel_due_at INTEGER,
    cancel_tries INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    erased_at INTEGER,
    epoch INTEGER NOT NULL DEFAULT 1,
    released_at INTEGER,
    release_note TEXT,
    provider_ahead INTEGER NOT NULL DEFAULT 0,
    consumed_at INTEGER,
    report_due_at INTEGER CHECK (report_due_at IS NULL OR consumed_at IS NOT NULL),
    report_tries INTEGER NOT NULL DEFAULT 0,
    UNIQUE (provider, instance_id, idempotency_key),
    UNIQUE (provider, instance_id, request_id),
    FOREIGN KEY (provider, instance_id) REFERENCES instance (provider, instance_id),
    CHECK (state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'succeeded', 'failed', 'in_doubt',
                     'denied', 'expired', 'cancelled', 'lapsed', 'refused', 'unobtained', 'abandoned')),
    CHECK (started_at IS NULL OR (decided_at IS NOT NULL AND expires_at IS NOT NULL AND started_at < expires_at)),
    CHECK (expires_at IS NULL OR (decided_at IS NOT NULL AND decided_at < expires_at)),
    CHECK (state NOT IN ('started', 'succeeded', 'failed', 'in_doubt')
           OR (started_at IS NOT NULL AND attempt_number IS NOT NULL)),
    CHECK (state <> 'started' OR lease_until IS NOT NULL),
    CHECK (state <> 'permitted' OR expires_at IS NOT NULL),
    CHECK (state NOT IN ('waiting', 'permitted', 'started', 'succeeded', 'failed', 'in_doubt', 'denied', 'expired',
                         'cancelled', 'lapsed') OR request_id IS NOT NULL),
    CHECK ((request_id IS NULL) = (request_created_at IS NULL) AND (request_id IS NULL) = (deadline_at IS NULL)),
    CHECK ((due_at IS NOT NULL) = (state IN ('saved', 'submitting', 'waiting'))),
    CHECK (erased_at IS NULL OR state NOT IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')),
    CHECK ((arguments IS NULL) = (erased_at IS NOT NULL)),
    CHECK (hold_until IS NULL OR state IN ('saved', 'submitting', 'waiting', 'permitted'))
) STRICT;

CREATE INDEX execution_due ON execution (epoch, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX execution_started ON execution (lease_until) WHERE state = 'started';

CREATE INDEX execution_permitted ON execution (expires_at) WHERE state = 'permitted';

CREATE INDEX execution_held ON execution (hold_until) WHERE hold_until IS NOT NULL;

CREATE INDEX execution_cancel_due ON execution (cancel_due_at) WHERE cancel_due_at IS NOT NULL;

CREATE INDEX execution_unresolved ON execution (state, number)
WHERE state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt');

CREATE INDEX execution_erasable ON execution (finished_at)
WHERE erased_at IS NULL AND finished_at IS NOT NULL AND cancel_due_at IS NULL;

CREATE TRIGGER execution_begins_saved BEFORE INSERT ON execution
WHEN new.state <> 'saved' OR new.request_id IS NOT NULL OR new.started_at IS NOT NULL OR new.expires_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'an execution begins as saved');
END;

CREATE TRIGGER execution_follows_arrows BEFORE UPDATE OF state ON execution
WHEN new.state <> old.state
    AND NOT EXISTS (SELECT 1 FROM arrow WHERE from_state = old.state AND to_state = new.state)
BEGIN
    SELECT RAISE(ABORT, 'there is no such change of state');
END;

CREATE TRIGGER execution_call_is_fixed BEFORE UPDATE ON execution
WHEN new.execution_id <> old.execution_id OR new.provider <> old.provider OR new.instance_id <> old.instance_id
    OR new.idempotency_key <> old.idempotency_key OR new.tool <> old.tool OR new.timeout <> old.timeout
    OR new.digest <> old.digest OR new.runs <> old.runs OR new.wake <> old.wake
    OR new."group" IS NOT old."group" OR new.created_at <> old.created_at
    OR (new.arguments IS NOT old.arguments AND new.erased_at IS NULL)
    OR (new.context IS NOT old.context AND new.erased_at IS NULL)
    OR (new.reasoning IS NOT old.reasoning AND new.erased_at IS NULL)
    OR (old.tool_version IS NOT NULL AND new.tool_version IS NOT old.tool_version)
BEGIN
    SELECT RAISE(ABORT, 'a saved call never changes');
END;

CREATE TRIGGER execution_decision_is_fixed BEFORE UPDATE ON execution
WHEN (old.request_id IS NOT NULL AND (new.request_id IS NOT old.request_id
        OR new.request_created_at IS NOT old.request_created_at OR new.deadline_at IS NOT old.deadline_at))
    OR (old.decided_at IS NOT NULL AND new.decided_at IS NOT old.decided_at)
    OR (old.expires_at IS NOT NULL AND new.expires_at IS NOT old.expires_at)
    OR (old.started_at IS NOT NULL AND new.started_at IS NOT old.started_at)
    OR (old.attempt_number IS NOT NULL AND new.attempt_number IS NOT old.attempt_number)
    OR (old.attempt_number IS NOT NULL AND new.lease_number <> old.lease_number)
    OR (old.claim_id IS NOT NULL AND new.claim_id IS NOT old.claim_id)
    OR (old.finished_at IS NOT NULL AND new.finished_at IS NOT old.finished_at)
    OR new.lease_number < old.lease_number
BEGIN
    SELECT RAISE(ABORT, 'what was decided and started never changes');
END;

CREATE TRIGGER execution_is_kept BEFORE DELETE ON execution
BEGIN
    SELECT RAISE(ABORT, 'an execution is never deleted');
END;

CREATE TABLE transition (
    execution_id TEXT NOT NULL REFERENCES execution (execution_id),
    number INTEGER NOT NULL,
    from_state TEXT,
    to_state TEXT NOT NULL,
    reason TEXT,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (execution_id, number)
) STRICT;

CREATE UNIQUE INDEX transition_started_once ON transition (execution_id) WHERE to_state = 'started';

CREATE TRIGGER transition_is_append_only BEFORE UPDATE ON transition
BEGIN
    SELECT RAISE(ABORT, 'transitions are append-only');
END;

CREATE TRIGGER transition_is_kept BEFORE DELETE ON transition
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = old.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'transitions are append-only');
END;

CREATE TRIGGER execution_saved AFTER INSERT ON execution
BEGIN
    INSERT INTO transition (execution_id, number, from_state, to_state, reason, actor, at)
    VALUES (new.execution_id, 1, NULL, new.state, new.reason, new.actor, new.changed_at);
END;

CREATE TRIGGER execution_changed AFTER UPDATE OF state ON execution
WHEN new.state <> old.state
BEGIN
    INSERT INTO transition (execution_id, number, from_state, to_state, reason, actor, at)
    SELECT new.execution_id, MAX(number) + 1, old.state, new.state, new.reason, new.actor, new.changed_at
    FROM transition WHERE execution_id = new.execution_id;
END;

CREATE TRIGGER execution_decided AFTER UPDATE OF state, request_id ON execution
WHEN (new.state <> old.state OR old.request_id IS NULL) AND new.request_id IS NOT NULL
    AND new.state NOT IN ('saved', 'submitting', 'waiting')
BEGIN
    UPDATE notification
    SET state = CASE new.state WHEN 'abandoned' THEN 'discarded' ELSE 'handled' END,
        reason = new.state, handled_at = MAX(new.changed_at, received_at)
    WHERE provider = new.provider AND instance_id = new.instance_id AND request_id = new.request_id
        AND state = 'received';
END;

CREATE TABLE wake (
    wake_id TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL REFERENCES execution (execution_id),
    number INTEGER NOT NULL,
    target TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'owed' CHECK (state IN ('owed', 'delivered', 'undelivered')),
    tries INTEGER NOT NULL DEFAULT 0,
    problem TEXT,
    due_at INTEGER,
    created_at INTEGER NOT NULL,
    delivered_at INTEGER,
    to_state TEXT NOT NULL,
    group_number INTEGER REFERENCES call_group (number),
    owed_since INTEGER,
    UNIQUE (execution_id, number),
    CHECK ((state = 'owed') = (due_at IS NOT NULL)),
    CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
) STRICT;

CREATE INDEX wake_due ON wake (due_at) WHERE due_at IS NOT NULL;

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

CREATE UNIQUE INDEX wake_group ON wake (group_number) WHERE group_number IS NOT NULL;

CREATE INDEX wake_not_delivered ON wake (state) WHERE state <> 'delivered';

CREATE INDEX wake_target_due ON wake (target, due_at) WHERE due_at IS NOT NULL;

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

CREATE TRIGGER transition_resolves AFTER INSERT ON transition
WHEN new.to_state NOT IN ('saved', 'submitting', 'waiting', 'started')
BEGIN
    INSERT INTO resolution (epoch, provider, instance_id, execution_id, transition_number, from_state, to_state, at)
    SELECT (SELECT MAX(number) FROM epoch), provider, instance_id, new.execution_id, new.number, new.from_state,
        new.to_state, new.at
    FROM execution
    WHERE execution_id = new.execution_id AND (new.to_state <> 'permitted' OR runs = 'harness');
END;

CREATE INDEX execution_instance ON execution (provider, instance_id, number);

CREATE INDEX execution_instance_state ON execution (provider, instance_id, state, number);

CREATE TABLE numbering (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL CHECK (length(key) = 32)) STRICT;

INSERT INTO numbering (id, key) VALUES (1, randomblob(32));

CREATE TABLE moved (id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL, "to" TEXT NOT NULL) STRICT;

CREATE TABLE filling (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL,
    "from" TEXT NOT NULL,
    store TEXT NOT NULL,
    bound INTEGER NOT NULL CHECK (bound IN (0, 1))
) STRICT;

CREATE TABLE worker (
    worker_id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pool TEXT NOT NULL,
    version TEXT NOT NULL,
    migration INTEGER NOT NULL,
    lease_seconds INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT;

CREATE TABLE worker_tool (
    worker_id TEXT NOT NULL REFERENCES worker (worker_id),
    tool TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (worker_id, tool)
) STRICT;

CREATE INDEX execution_due_tool ON execution (epoch, tool, COALESCE(tool_version, ''), state, due_at)
WHERE due_at IS NOT NULL AND runs = 'worker';

CREATE INDEX execution_due_harness ON execution (epoch, due_at) WHERE due_at IS NOT NULL AND runs = 'harness';

CREATE INDEX execution_report_due ON execution (report_due_at) WHERE report_due_at IS NOT NULL;

CREATE TRIGGER execution_consumption_is_fixed BEFORE UPDATE OF consumed_at ON execution
WHEN old.consumed_at IS NOT NULL AND new.consumed_at IS NOT old.consumed_at
BEGIN
    SELECT RAISE(ABORT, 'what was consumed stays consumed');
END;

CREATE TRIGGER execution_owes_a_report AFTER UPDATE OF state ON execution
WHEN new.state <> old.state AND new.consumed_at IS NOT NULL AND new.finished_at IS NOT NULL
BEGIN
    UPDATE execution SET report_due_at = new.changed_at, report_tries = 0 WHERE number = new.number;
END;

CREATE TABLE consuming_provider (
    provider TEXT PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT;

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

CREATE TABLE adoption_mark (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL) STRICT;

INSERT INTO adoption_mark (id, number) VALUES (1, 0);

CREATE TABLE worker_resumer (
    worker_id TEXT NOT NULL REFERENCES worker (worker_id) ON DELETE CASCADE,
    framework TEXT NOT NULL,
    PRIMARY KEY (worker_id, framework)
) STRICT;
