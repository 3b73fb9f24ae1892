#!/bin/sh
# The refund desk's harness in sh and curl, in two short lives:
#   harness.sh propose   the agent proposes two refunds; they are saved, and this process ends
#   harness.sh resume    a process that knows nothing yet is told what became of them, and runs what was approved
# CONTROL: the receiver's control socket. BANK: the payment API. STATE: a folder of this harness.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
newline='
'

# METHOD PATH [JSON] → $status, $answer. Every request may be made again as it is, so a lost answer is asked for again.
ask() {
    for pause in 1 2 4 8 0; do
        if answer=$(printf '%s' "${3-}" | curl -sS --max-time 30 --unix-socket "$CONTROL" -w '\n%{http_code}' \
            -X "$1" -H 'Content-Type: application/json' ${3:+--data-binary @-} "http://wakegate$2"); then
            status=${answer##*"$newline"} answer=${answer%"$newline"*}
            case $status in 429 | 503) ;; *) return 0 ;; esac
        fi
        sleep "$pause"
    done
    echo 'harness: no answer from wakegate' >&2
    exit 1
}

# JSON PATH: prints what is there.
field() { printf '%s\n' "$1" | LC_ALL=C awk -v want="$2" -f "$here/json.awk"; }

tell_the_agent() { printf '%s\n' "$1" >>"$STATE/agent.txt"; }

# KEY ARGUMENTS REASONING. The key is the agent's own, made before the call: saving it again finds the same call.
suspend() {
    ask POST /v1/executions \
        "{\"tool\": \"issue_refund\", \"arguments\": $2, \"key\": \"$1\", \"reasoning\": \"$3\", \"runs\": \"harness\"}"
    case $status in
        200 | 201) echo "$(field "$answer" .execution_id) $1" >>"$STATE/calls" ;;
        *) echo "harness: $(field "$answer" .message)" >&2 && exit 1 ;;
    esac
}

propose() {
    suspend run-7:refund-1 '{"payment_id": "pay-1", "amount": 4900, "currency": "EUR"}' 'The customer was charged twice.'
    suspend run-7:refund-2 '{"payment_id": "pay-2", "amount": 12000, "currency": "EUR"}' 'The parcel never came.'
}

resume() {
    left=$(wc -l <"$STATE/calls") cursor='' event='' data=''
    mkfifo "$STATE/stream.$$"
    for try in 1 2 3 4 5 6 7 8 9; do # after= the last id that was dealt with; what comes twice changes nothing
        curl -sSNf --unix-socket "$CONTROL" "http://wakegate/v1/resolutions?after=$cursor" >"$STATE/stream.$$" &
        stream=$!
        while [ "$left" -gt 0 ] && IFS= read -r line; do
            case $line in
                'id: '*) id=${line#id: } ;;
                'event: '*) event=${line#event: } ;;
                'data: '*) data=${line#data: } ;;
                '')
                    [ "$event" != resolution ] || told "$data"
                    cursor=${id-} event=''
                    ;;
            esac
        done <"$STATE/stream.$$"
        kill "$stream" 2>/dev/null || :
        wait "$stream" 2>/dev/null || :
        [ "$left" -gt 0 ] || break
        sleep 1
    done
    rm "$STATE/stream.$$"
    [ "$left" -eq 0 ]
}

# RESOLUTION: what became of a call.
told() {
    call=$(field "$1" .execution_id) state=$(field "$1" .state)
    grep -q "^$call " "$STATE/calls" || return 0 # another agent's
    if [ "$state" = permitted ]; then
        run "$call"
    else
        tell_the_agent "$(field "$1" .key): $state: $(field "$1" .note) $(field "$1" .result)"
        left=$((left - 1))
    fi
}

# EXECUTION: spend the permission, once, and make the refund. The claim's id is this process's alone.
run() {
    ask POST "/v1/executions/$1/claim" "{\"claim_id\": \"$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')\"}"
    if [ "$status" != 200 ]; then
        tell_the_agent "$(field "$answer" .execution.key): not run by this process: $(field "$answer" .message)"
        return 0
    fi
    grant="\"number\": $(field "$answer" .attempt.number), \"token\": \"$(field "$answer" .attempt.token)\""
    before=$(field "$answer" .attempt.start_before)
    if ! LC_ALL=C expr "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \< "$before" >/dev/null; then
        outcome='"outcome": "not_begun"'
    elif refund=$(field "$answer" .attempt.arguments | curl -sSf --max-time 10 --data-binary @- "$BANK/refunds" \
        -H 'Content-Type: application/json' -H "Idempotency-Key: $(field "$answer" .attempt.idempotency_key)"); then
        outcome="\"outcome\": \"succeeded\", \"result\": $refund"
    else # it may have happened: nobody runs it again, and a person looks
        outcome='"outcome": "in_doubt", "error": "the bank did not answer"'
    fi
    ask POST "/v1/executions/$1/finish" "{$grant, $outcome}"
}

case ${1-} in
    propose | resume) "$1" ;;
    *) echo 'usage: harness.sh propose|resume' >&2 && exit 2 ;;
esac
