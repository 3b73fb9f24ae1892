-- name: unmatched_next
-- What came after the mark, in the order of receipt, and whether a call was saved here for it.
SELECT page.number, page.provider, page.instance_id, page.request_id, page.state, page.received_at,
    execution.execution_id AS saved
FROM (
    SELECT * FROM notification WHERE number > (SELECT number FROM adoption_mark) ORDER BY number LIMIT :limit
) AS page
LEFT JOIN execution
    ON execution.provider = page.provider AND execution.instance_id = page.instance_id
    AND execution.request_id = page.request_id
ORDER BY page.number;

-- name: unmatched_wait
SELECT 1 FROM notification WHERE number > (SELECT number FROM adoption_mark) LIMIT 1;

-- name: adoption_mark_raise
UPDATE adoption_mark SET number = :number WHERE number < :number;

-- name: adoption_add
INSERT INTO adoption (provider, instance_id, request_id, due_at, created_at)
VALUES (:provider, :instance_id, :request_id, :at, :at)
ON CONFLICT (provider, instance_id, request_id) DO NOTHING;

-- name: adoption_hint
-- Not while its resumer runs: that is looked at when it has ended.
UPDATE adoption SET due_at = {least}(due_at, :at)
WHERE provider = :provider AND instance_id = :instance_id AND request_id = :request_id AND due_at IS NOT NULL
    AND run_until IS NULL;

-- name: notifications_adopted
UPDATE notification SET state = 'handled', reason = 'adopted', handled_at = {greatest}(:at, received_at)
WHERE provider = :provider AND instance_id = :instance_id AND request_id = :request_id AND state = 'received';

-- name: adoption_of_lease
SELECT * FROM adoption WHERE number = :number AND lease_number = :lease_number AND state = 'owed';

-- name: adoption_learn
UPDATE adoption SET framework = :framework, thread = :thread
WHERE number = :number AND lease_number = :lease_number AND state = 'owed' AND framework IS NULL;

-- name: adoption_thread_free
-- A run whose worker fell silent has lost its thread.
UPDATE adoption SET run_until = NULL, last_end = 'badly'
WHERE framework = :framework AND thread = :thread AND run_until IS NOT NULL AND run_until <= :at;

-- name: adoption_thread_taken
SELECT 1 FROM adoption WHERE framework = :framework AND thread = :thread AND run_until IS NOT NULL;

-- name: adoption_run
UPDATE adoption SET run_began_at = :at, run_until = :until, due_at = :until, runs = runs + 1, problem = NULL
WHERE number = :number AND lease_number = :lease_number AND state = 'owed';

-- name: adoption_keep
-- Not for an instance that was retired meanwhile: its run is ended, and only then is the thread free.
UPDATE adoption SET run_until = :until, due_at = :until
WHERE number = :number AND lease_number = :lease_number AND run_until > :at AND NOT EXISTS (
    SELECT 1 FROM instance
    WHERE instance.provider = adoption.provider AND instance.instance_id = adoption.instance_id
        AND instance.state = 'retired'
);

-- name: adoption_again
UPDATE adoption
SET due_at = :due_at, run_until = NULL, problem = CASE WHEN :failed + :ended > 0 THEN :problem ELSE problem END,
    tries = CASE WHEN :failed = 1 THEN tries + 1 WHEN :ended = 1 THEN 0 ELSE tries END,
    last_end = COALESCE(:end, last_end), well_runs = well_runs + :well
WHERE number = :number AND lease_number = :lease_number AND state = 'owed';

-- name: adoption_end
UPDATE adoption
SET state = 'ended', reason = :reason, ended_at = :at, due_at = NULL, run_until = NULL, problem = NULL, tries = 0
WHERE number = :number AND lease_number = :lease_number AND state = 'owed';

-- name: adoption
SELECT * FROM adoption
WHERE provider = :provider AND instance_id = :instance_id AND request_id = :request_id;

-- name: adoptions_latest
SELECT * FROM adoption WHERE number < :before ORDER BY number DESC LIMIT :limit;

-- name: resumers_wanted
-- Which frameworks owed adoptions name that no living worker can resume.
SELECT framework, COUNT(*) AS count FROM adoption
WHERE due_at IS NOT NULL AND framework IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM worker_resumer JOIN worker ON worker.worker_id = worker_resumer.worker_id
    WHERE worker.seen_at > :since AND worker_resumer.framework = adoption.framework
)
GROUP BY framework ORDER BY framework;

-- name: instance_adoptions_due
UPDATE adoption SET due_at = {least}(due_at, :at)
WHERE provider = :provider AND instance_id = :instance_id AND due_at IS NOT NULL AND run_until IS NULL;

-- name: instance_end_adoptions
-- Without its credential nothing can be read any more. One that runs is ended by its worker, once its run is.
UPDATE adoption
SET state = 'ended', reason = 'instance_retired', ended_at = :at, due_at = NULL, run_until = NULL, problem = NULL, tries = 0
WHERE provider = :provider AND instance_id = :instance_id AND due_at IS NOT NULL
    AND (run_until IS NULL OR run_until <= :at);

-- name: bring_forward_adoptions
UPDATE adoption SET due_at = :at WHERE due_at > :beyond AND run_until IS NULL;

-- name: bring_forward_runs
UPDATE adoption SET due_at = :beyond, run_until = :beyond WHERE run_until > :beyond;

-- name: adoptions_give_up
-- Those that no worker can resume are leased by nobody, who could end them; the last one's may have died in a run.
UPDATE adoption
SET state = 'ended', reason = 'given_up', ended_at = :at, due_at = NULL, run_until = NULL, problem = NULL, tries = 0,
    last_end = CASE WHEN run_until IS NULL THEN last_end ELSE 'badly' END
WHERE number IN (
    SELECT number FROM adoption
    WHERE due_at IS NOT NULL AND (run_until IS NULL OR run_until <= :at) AND created_at <= :before ORDER BY due_at LIMIT :limit
);

-- name: prune_adoptions
DELETE FROM adoption WHERE number IN (
    SELECT number FROM adoption WHERE ended_at IS NOT NULL AND ended_at <= :before ORDER BY ended_at LIMIT :limit
);
