-- name: execution_save
INSERT INTO execution
    (execution_id, provider, instance_id, idempotency_key, tool, arguments, context, reasoning, timeout, digest,
     tool_version, runs, wake, "group", state, reason, actor, due_at, hold_id, hold_until, created_at, changed_at, epoch)
VALUES
    (:execution_id, :provider, :instance_id, :idempotency_key, :tool, :arguments, :context, :reasoning, :timeout,
     :digest, :tool_version, :runs, :wake, :group, 'saved', NULL, :actor, :at, :hold_id, :hold_until, :at, :at,
     (SELECT MAX(number) FROM epoch));

-- name: execution_by_key
SELECT * FROM execution
WHERE provider = :provider AND instance_id = :instance_id AND idempotency_key = :idempotency_key;

-- name: execution
SELECT * FROM execution WHERE execution_id = :execution_id;

-- name: executions_among
WITH item (execution_id) AS {batch text}
SELECT execution.* FROM item {ordered_join} execution ON execution.execution_id = item.execution_id;

-- name: execution_by_request
SELECT * FROM execution WHERE provider = :provider AND instance_id = :instance_id AND request_id = :request_id;

-- name: executions
SELECT * FROM execution WHERE number > :after ORDER BY number LIMIT :limit;

-- name: executions_in_state
SELECT * FROM execution WHERE state = :state AND number > :after ORDER BY number LIMIT :limit;

-- name: executions_unresolved_in_state
SELECT * FROM execution
WHERE state = :state AND number > :after
    AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
ORDER BY number LIMIT :limit;

-- name: executions_latest
SELECT * FROM execution WHERE number < :before ORDER BY number DESC LIMIT :limit;

-- name: executions_latest_in_state
SELECT * FROM execution WHERE state = :state AND number < :before ORDER BY number DESC LIMIT :limit;

-- name: executions_latest_unresolved_in_state
SELECT * FROM execution
WHERE state = :state AND number < :before
    AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
ORDER BY number DESC LIMIT :limit;

-- name: executions_from
-- A prefix is a range of the ids: nothing in an id sorts after 'f'.
SELECT * FROM execution WHERE execution_id >= :prefix AND execution_id < :prefix || 'g'
ORDER BY execution_id LIMIT :limit;

-- name: executions_of_key
-- The instances are few, and the index begins with them.
SELECT found.*
FROM instance {ordered_join} execution AS found
    ON found.provider = instance.provider AND found.instance_id = instance.instance_id
    AND found.idempotency_key = :key
LIMIT :limit;

-- name: transitions
SELECT * FROM transition WHERE execution_id = :execution_id ORDER BY number;

-- name: execution_abandon
UPDATE execution
SET state = 'abandoned', reason = :reason, actor = :actor, problem = NULL, due_at = NULL, hold_until = NULL,
    finished_at = :at, changed_at = :at, cancel_due_at = :cancel_due_at, cancel_tries = 0
WHERE execution_id = :execution_id AND state = :state;

-- name: execution_keep_hold
UPDATE execution SET hold_until = :until
WHERE execution_id = :execution_id AND hold_id = :hold_id AND hold_until > :at;

-- name: lease_anything
-- As before workers said which tools they have: for an owner that has not.
UPDATE execution
SET lease_number = lease_number + 1, lease_owner = :owner, lease_until = :until, due_at = :until
WHERE number IN (
    SELECT number FROM execution
    WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL AND due_at <= :at AND (lease_until <= :at
        OR lease_until IS NULL AND (lease_owner IS DISTINCT FROM :owner OR due_at <= :at - :head_start))
    ORDER BY due_at LIMIT :limit
)
RETURNING *;

-- name: next_due_anything
-- A row under a lease counts from the lease's end; a few rows suffice, since a hint too late is found by the sweep.
SELECT MIN(at) AS at FROM (
    SELECT CASE
        WHEN lease_until IS NULL AND lease_owner = :owner THEN due_at + :head_start
        ELSE {greatest}(due_at, COALESCE(lease_until, 0))
    END AS at FROM execution
    WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at IS NOT NULL ORDER BY due_at LIMIT 100
) AS soonest;

-- name: lease_keep
-- A batch is joined by the ids of its executions: `state || ''` is read from the row, and no index of a state searched.
WITH item (execution_id, number, at, until) AS {batch text, bigint, bigint, bigint}
UPDATE execution
SET lease_until = item.until, due_at = CASE WHEN due_at < lease_until THEN due_at ELSE item.until END
FROM item
WHERE execution.execution_id = item.execution_id AND lease_number = item.number AND lease_until > item.at
    AND state || '' IN ('saved', 'submitting', 'waiting')
RETURNING execution.execution_id;

-- name: lease_release
-- A due_at before the lease's end was set by a notification meanwhile: the execution is due now. One that is passed on
-- is due from now, not from then, or the others would have no head start.
-- An approval that could not be used yet is pinned: the trigger lets no later answer move its end.
WITH item (execution_id, number, due_at, problem, at, pass_on, decided_at, expires_at, consumed_at) AS
    {batch text, bigint, bigint, text, bigint, bigint, bigint, bigint, bigint}
UPDATE execution
SET due_at = CASE
        WHEN execution.due_at >= lease_until THEN item.due_at WHEN item.pass_on = 1 THEN item.at
        ELSE {least}(execution.due_at, item.at)
    END,
    lease_until = NULL, lease_owner = CASE WHEN item.pass_on = 1 THEN lease_owner END, problem = item.problem,
    tries = CASE WHEN item.problem IS NULL THEN 0 ELSE tries + 1 END,
    decided_at = COALESCE(execution.decided_at, item.decided_at),
    expires_at = COALESCE(execution.expires_at, item.expires_at),
    consumed_at = COALESCE(execution.consumed_at, item.consumed_at)
FROM item
WHERE execution.execution_id = item.execution_id AND lease_number = item.number AND lease_until > item.at
    AND state || '' IN ('saved', 'submitting', 'waiting')
RETURNING execution.execution_id;

-- name: begin_submission
WITH item (execution_id, number, tool_version, at) AS {batch text, bigint, text, bigint}
UPDATE execution
SET state = 'submitting', reason = NULL, actor = 'worker', changed_at = item.at,
    tool_version = COALESCE(execution.tool_version, item.tool_version)
FROM item
WHERE execution.execution_id = item.execution_id AND lease_number = item.number AND lease_until > item.at
    AND state || '' = 'saved'
RETURNING execution.execution_id;

-- name: is_submitting
WITH item (execution_id, number, at) AS {batch text, bigint, bigint}
SELECT execution.execution_id
FROM item {ordered_join} execution
    ON execution.execution_id = item.execution_id AND lease_number = item.number AND lease_until > item.at
    AND state || '' = 'submitting';

-- name: attach
WITH item (execution_id, request_id, created_at, deadline_at) AS {batch text, text, bigint, bigint}
UPDATE execution
SET request_id = item.request_id, request_created_at = item.created_at, deadline_at = item.deadline_at
FROM item
WHERE execution.execution_id = item.execution_id;

-- name: attached_waits
WITH item (execution_id, at) AS {batch text, bigint}
UPDATE execution
SET state = 'waiting', reason = NULL, actor = 'worker', tries = 0, changed_at = item.at,
    problem = CASE WHEN epoch < (SELECT MAX(number) FROM epoch) THEN problem END
FROM item
WHERE execution.execution_id = item.execution_id AND state || '' = 'submitting'
RETURNING execution.execution_id;

-- name: attached_and_notified
-- Of these executions, those whose notification came before their request's id.
WITH item (execution_id) AS {batch text}
SELECT execution.execution_id
FROM item {ordered_join} execution ON execution.execution_id = item.execution_id
WHERE EXISTS (
    SELECT 1 FROM notification
    WHERE notification.provider = execution.provider AND notification.instance_id = execution.instance_id
        AND notification.request_id = execution.request_id AND notification.state = 'received'
);

-- name: close_unstarted
WITH item (execution_id, number, at, state, reason, decided_at, expires_at, note, cancel, consumed_at) AS
    {batch text, bigint, bigint, text, text, bigint, bigint, text, bigint, bigint}
UPDATE execution
SET state = item.state, reason = item.reason, actor = 'worker', problem = NULL, due_at = NULL, hold_until = NULL,
    lease_until = NULL, lease_owner = NULL, decided_at = COALESCE(execution.decided_at, item.decided_at),
    expires_at = COALESCE(execution.expires_at, item.expires_at), note = item.note, finished_at = item.at,
    changed_at = item.at, cancel_due_at = CASE WHEN item.cancel = 1 THEN item.at END, cancel_tries = 0,
    consumed_at = COALESCE(execution.consumed_at, item.consumed_at)
FROM item
WHERE execution.execution_id = item.execution_id AND lease_number = item.number AND lease_until > item.at
    AND execution.state || '' IN ('saved', 'submitting', 'waiting')
RETURNING execution.execution_id;

-- name: permit
WITH item (execution_id, number, decided_at, expires_at, note, at, ahead, runs, consumed_at) AS
    {batch text, bigint, bigint, bigint, text, bigint, bigint, text, bigint}
UPDATE execution
SET state = 'permitted', reason = 'approved', actor = 'worker', problem = NULL, tries = 0, due_at = NULL,
    lease_until = CASE execution.runs WHEN 'worker' THEN lease_until END,
    lease_owner = CASE execution.runs WHEN 'worker' THEN lease_owner END,
    decided_at = item.decided_at, expires_at = item.expires_at, note = item.note, changed_at = item.at,
    provider_ahead = item.ahead, consumed_at = COALESCE(execution.consumed_at, item.consumed_at)
FROM item
WHERE execution.execution_id = item.execution_id AND lease_number = item.number AND lease_until > item.at
    AND state || '' = 'waiting' AND execution.runs = item.runs AND item.at < item.expires_at
    AND epoch = (SELECT MAX(number) FROM epoch)
RETURNING execution.execution_id;

-- name: start
WITH item (execution_id, number, at, until) AS {batch text, bigint, bigint, bigint}
UPDATE execution
SET state = 'started', reason = 'approved', actor = 'worker', started_at = item.at, changed_at = item.at,
    attempt_number = lease_number, lease_until = item.until, hold_until = NULL
FROM item
WHERE execution.execution_id = item.execution_id AND lease_number = item.number AND lease_until > item.at
    AND state || '' = 'permitted' AND runs = 'worker' AND item.at < expires_at
    AND epoch = (SELECT MAX(number) FROM epoch)
RETURNING {every};

-- name: claim
UPDATE execution
SET state = 'started', reason = 'claimed', actor = :actor, started_at = :at, changed_at = :at,
    claim_id = :claim_id, attempt_token_hash = :token_hash, lease_number = lease_number + 1,
    attempt_number = lease_number + 1, lease_until = :until, lease_owner = :claim_id, hold_until = NULL
WHERE execution_id = :execution_id AND state = 'permitted' AND runs = 'harness' AND :at + :margin <= expires_at - provider_ahead
    AND :at < expires_at - provider_ahead AND epoch = (SELECT MAX(number) FROM epoch)
RETURNING *;

-- name: claim_again
UPDATE execution SET attempt_token_hash = :token_hash, lease_until = {greatest}(lease_until, :until)
WHERE execution_id = :execution_id AND state = 'started' AND claim_id = :claim_id AND lease_until > :at
    AND epoch = (SELECT MAX(number) FROM epoch)
RETURNING *;

-- name: attempt_renew
WITH item (execution_id, number, at, until, token_hash) AS {batch text, bigint, bigint, bigint, bytea}
UPDATE execution SET lease_until = {greatest}(lease_until, item.until)
FROM item
WHERE execution.execution_id = item.execution_id AND attempt_number = item.number AND state || '' = 'started'
    AND lease_until > item.at AND attempt_token_hash IS NOT DISTINCT FROM item.token_hash
RETURNING execution.execution_id;

-- name: attempt_runs_on
-- In doubt, lease_until is a sign of life: who asks the tool's probe sees it change, also by a clock that stands still.
WITH item (execution_id, number, until, token_hash) AS {batch text, bigint, bigint, bytea}
UPDATE execution
SET lease_until = CASE state
        WHEN 'in_doubt' THEN {greatest}(item.until, COALESCE(lease_until, 0) + 1) ELSE lease_until
    END
FROM item
WHERE execution.execution_id = item.execution_id AND attempt_number = item.number
    AND state || '' IN ('started', 'in_doubt') AND attempt_token_hash IS NOT DISTINCT FROM item.token_hash
RETURNING execution.execution_id;

-- name: attempt_finish
WITH item (execution_id, state, reason, actor, result, error, at, finished_at) AS
    {batch text, text, text, text, bytea, text, bigint, bigint}
UPDATE execution
SET state = item.state, reason = item.reason, actor = item.actor, result = item.result, error = item.error,
    changed_at = item.at, finished_at = item.finished_at, lease_until = NULL, lease_owner = NULL
FROM item
WHERE execution.execution_id = item.execution_id AND execution.state || '' IN ('started', 'in_doubt')
RETURNING {every};

-- name: settle
UPDATE execution
SET state = :state, reason = :reason, actor = :actor, resolution_note = :note, changed_at = :at, finished_at = :at,
    lease_until = NULL
WHERE execution_id = :execution_id AND state = 'in_doubt'
RETURNING *;

-- name: sweep_due
-- Whether there is anything for each of the three that follow; mostly there is not.
SELECT
    EXISTS (SELECT 1 FROM execution WHERE state = 'started' AND lease_until <= :at) AS in_doubt,
    EXISTS (SELECT 1 FROM execution WHERE state = 'permitted' AND expires_at <= :at) AS lapsed,
    EXISTS (SELECT 1 FROM execution WHERE hold_until IS NOT NULL AND hold_until <= :at) AS held;

-- name: sweep_in_doubt
UPDATE execution
SET state = 'in_doubt', reason = 'lease_lost', actor = 'sweep', changed_at = :at, lease_until = NULL,
    lease_owner = NULL
WHERE number IN (
    SELECT number FROM execution WHERE state = 'started' AND lease_until <= :at ORDER BY lease_until LIMIT :limit
)
RETURNING execution_id;

-- name: sweep_lapsed
UPDATE execution
SET state = 'lapsed', reason = 'not_claimed', actor = 'sweep', problem = NULL, changed_at = :at, finished_at = :at,
    hold_until = NULL
WHERE number IN (
    SELECT number FROM execution WHERE state = 'permitted' AND expires_at <= :at ORDER BY expires_at LIMIT :limit
)
RETURNING execution_id;

-- name: sweep_held
SELECT * FROM execution WHERE hold_until IS NOT NULL AND hold_until <= :at ORDER BY hold_until LIMIT :limit;

-- name: lease_cancels
UPDATE execution SET cancel_due_at = :until
WHERE number IN (
    SELECT number FROM execution
    WHERE cancel_due_at IS NOT NULL AND cancel_due_at <= :at ORDER BY cancel_due_at LIMIT :limit
)
RETURNING *;

-- name: cancel_settled
UPDATE execution SET cancel_due_at = NULL WHERE execution_id = :execution_id;

-- name: cancel_retry
UPDATE execution SET cancel_due_at = :due_at, cancel_tries = cancel_tries + 1
WHERE execution_id = :execution_id AND cancel_due_at IS NOT NULL;

-- name: doubts
-- No more than `limit` are looked at, however many there are.
SELECT COUNT(*) AS count, MIN(changed_at) AS since FROM (
    SELECT changed_at FROM execution
    WHERE state = 'in_doubt' AND state IN ('saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt')
    ORDER BY number LIMIT :limit
) AS looked_at;

-- name: bring_forward_due
-- What a clock that was ahead has put off, the latest first; a step begins where the one before has ended.
UPDATE execution SET due_at = :at, lease_until = CASE WHEN lease_until > :at THEN :at ELSE lease_until END
WHERE number IN (
    SELECT number FROM execution
    WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at > :beyond
        AND (due_at, number) < (:before_at, :before_number)
    ORDER BY due_at DESC, number DESC LIMIT :limit
);

-- name: bring_forward_page
SELECT due_at, number FROM execution
WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at > :beyond
    AND (due_at, number) < (:before_at, :before_number)
ORDER BY due_at DESC, number DESC LIMIT :limit;

-- name: bring_forward_hinted
UPDATE execution SET lease_until = :at
WHERE epoch = (SELECT MAX(number) FROM epoch) AND due_at <= :at AND lease_until > :beyond;

-- name: bring_forward_started
UPDATE execution SET lease_until = :beyond WHERE state = 'started' AND lease_until > :beyond;

-- name: bring_forward_held
UPDATE execution SET hold_until = :beyond WHERE hold_until > :beyond;

-- name: bring_forward_reports
UPDATE execution SET report_due_at = :at WHERE report_due_at > :beyond;

-- name: bring_forward_cancels
UPDATE execution SET cancel_due_at = :at WHERE cancel_due_at > :beyond;
