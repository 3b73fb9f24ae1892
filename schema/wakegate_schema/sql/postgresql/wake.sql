-- name: lease_wakes
-- Of all targets but those that are leased by name.
UPDATE wake SET due_at = :until
WHERE wake_id IN (
    SELECT wake_id FROM wake
    WHERE due_at IS NOT NULL AND due_at <= :at AND target NOT IN (SELECT json_array_elements_text(:but::json))
    ORDER BY due_at LIMIT :limit
)
RETURNING *;
