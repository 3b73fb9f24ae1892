-- name: notifications_among
SELECT found.provider, found.event_id, found.instance_id, found.request_id, found.body
FROM unnest(?::text[], ?::text[]) AS wanted (provider, event_id)
JOIN notification AS found ON found.provider = wanted.provider AND found.event_id = wanted.event_id;

-- name: notification_add
-- Another receiver may record the same event at this moment: whoever comes second adds nothing.
INSERT INTO notification
    (provider, instance_id, event_id, request_id, registration_id, state, reason, created_at, received_at, handled_at,
     keep_until, body)
SELECT * FROM unnest(
    ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[],
    ?::bigint[], ?::bytea[])
ON CONFLICT (provider, event_id) DO NOTHING
RETURNING provider, event_id;

-- name: executions_notified
SELECT found.provider, found.instance_id, found.request_id, found.state
FROM unnest(?::text[], ?::text[], ?::text[]) AS wanted (provider, instance_id, request_id)
JOIN execution AS found ON found.provider = wanted.provider AND found.instance_id = wanted.instance_id
    AND found.request_id = wanted.request_id;

-- name: executions_make_due
-- Under a lease the hint is kept as a due_at before the lease's end, whatever clock it came by: `release` sees it.
UPDATE execution SET due_at = {least}(due_at, ?, COALESCE(lease_until - 1, due_at))
WHERE number IN (
    SELECT found.number
    FROM unnest(?::text[], ?::text[], ?::text[]) AS wanted (provider, instance_id, request_id)
    JOIN execution AS found ON found.provider = wanted.provider AND found.instance_id = wanted.instance_id
        AND found.request_id = wanted.request_id
    WHERE found.state = 'waiting'
);
